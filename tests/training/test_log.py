"""The log: whole lines, cut back to a step, a torn last line dropped."""
import re

import pytest

from tinyformer.training.log import LossLog, read_log


def write(path, *records):
    log = LossLog(str(path))
    for record in records:
        log.append(record)
    log.close()


RECORDS = [{"step": step, "loss": 1 / step} for step in range(1, 6)]


def test_a_log_is_read_as_it_was_written_bit_for_bit(tmp_path):
    write(tmp_path / "log", *RECORDS)
    assert read_log(str(tmp_path / "log")) == RECORDS


def test_every_line_is_there_before_the_next_step(tmp_path):
    log = LossLog(str(tmp_path / "log"))
    for record in RECORDS:
        log.append(record)
        assert read_log(str(tmp_path / "log"))[-1] == record
    log.sync()
    log.close()


@pytest.mark.parametrize("keep", [0, 1, 3, 5])
def test_opening_cuts_back_to_the_step_and_goes_on_from_there(tmp_path, keep):
    write(tmp_path / "log", *RECORDS)
    log = LossLog(str(tmp_path / "log"), keep)
    log.append({"step": 77, "loss": 0.0})
    log.close()
    assert read_log(str(tmp_path / "log")) == RECORDS[:keep] + [{"step": 77, "loss": 0.0}]


def test_a_line_torn_anywhere_is_dropped(tmp_path):
    write(tmp_path / "log", *RECORDS)
    content = (tmp_path / "log").read_bytes()
    start = content.rindex(b"{")
    for end in range(start, len(content)):
        (tmp_path / "log").write_bytes(content[:end])
        assert read_log(str(tmp_path / "log")) == RECORDS[:4]
        LossLog(str(tmp_path / "log"), 4).close()
        assert (tmp_path / "log").read_bytes() == content[:start]


@pytest.mark.parametrize("steps, found", [
    (None, "there is no such file"), ([], "it has none of them"), ([1, 2], "it ends with step 2"),
    ([5, 6], "it has none of them"), ([2, 3, 4], "step 2 stands in place of 1"),
    ([1, 2, 4], "step 4 stands in place of 3"), ([1, 2, 2, 3, 4], "step 2 stands in place of 3"),
    ([1, 3, 2, 4], "step 3 stands in place of 2"), ([0, 1, 2, 3, 4], "step 0 stands in place of 1"),
    ([1, 2, 3, 5, 6], "it ends with step 3"), ([1, 2, 3, 4, 3], "step 3 stands in place of 5")])
def test_a_log_that_is_not_of_the_checkpoint_is_refused_and_left_alone(tmp_path, steps, found):
    path = tmp_path / "log"
    if steps is not None:
        write(path, *({"step": step, "loss": 1.0} for step in steps))
    before = path.read_bytes() if path.exists() else None
    words = f"{re.escape(str(path))} is not .*: expected the steps 1 to 4, .* but {found}"
    with pytest.raises(ValueError, match=words):
        LossLog(str(path), 4)
    assert (path.read_bytes() if path.exists() else None) == before
    assert len(list(tmp_path.iterdir())) == (before is not None)


@pytest.mark.parametrize("bad", [b"words", b"[1]", b'{"loss": 1}', b'{"step": "1"}', b"", b"\xff"])
def test_a_line_that_is_no_record_is_named(tmp_path, bad):
    first = b'{"step": 1, "loss": 2.0}\n'
    (tmp_path / "log").write_bytes(first + bad + b"\n" + b'{"step": 3, "loss": 2.0}\n')
    with pytest.raises(ValueError, match=f"log, line 2, byte {len(first)}: not a record of a step"):
        LossLog(str(tmp_path / "log"), 9)


def test_a_full_disk_is_an_error_and_leaves_whole_lines_or_a_torn_one(tmp_path):
    resource = pytest.importorskip("resource")
    path = str(tmp_path / "log")
    log = LossLog(path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=f"line of the log was not written.*{re.escape(path)}"):
            for record in RECORDS * 9:
                log.append(record)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.close()
    kept = read_log(path)
    assert 0 < len(kept) < 5 and kept == RECORDS[:len(kept)]


def test_nan_is_never_written(tmp_path):
    log = LossLog(str(tmp_path / "log"))
    with pytest.raises(ValueError):
        log.append({"step": 1, "loss": float("nan")})
    log.close()
    assert read_log(str(tmp_path / "log")) == []
    with pytest.raises(FileNotFoundError):
        read_log(str(tmp_path / "no"))
