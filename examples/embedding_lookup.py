"""Embedding lookup: an id is a place in a table, and says nothing about what it means.

The worked numbers of the founding text: the tokens alpha, beta, gamma with ids 0, 1, 2; a table E
of 3 x 4; the sequence (2, 0). Then what the lookup sends back, S^T G, as an itemised bill; what an
optimiser makes of it, which is something else; and what a lookup cannot do.
"""

from __future__ import annotations

from typing import List

import tinyformer as tf
from examples._page import Page, claim, heading, numbers, run
from tinyformer import functional as F, nn
from tinyformer.models import EncoderConfig, EncoderModel
from tinyformer.pictures import beside, table
from tinyformer.training import SGD, AdamW

TOKENS = ["alpha", "beta", "gamma"]
E = [[1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]]


def embedding(rows: List[List[float]]) -> nn.Embedding:
    """A table that holds these rows."""
    made = nn.Embedding(len(rows), len(rows[0]))
    made.load_state_dict({"weight": rows})
    return made


def one_hot(ids: List[int], size: int) -> List[List[float]]:
    """S: a row per place, 1 at the id that stands there."""
    return [[float(column == token) for column in range(size)] for token in ids]


def squared_distance(i: int, j: int) -> float:
    """Of the vectors of two ids."""
    return sum((p - q) ** 2 for p, q in zip(E[i], E[j]))


def ids_are_not_meanings() -> None:
    """Neighbouring numbers are not neighbouring meanings; other numbers do as well."""
    heading("1. Ids are places, not measurements: |E_i - E_j|^2")
    for i, j in ((0, 1), (1, 2), (0, 2)):
        print(f"  {TOKENS[i]:>5} and {TOKENS[j]:<5}  ids {i} and {j}: {squared_distance(i, j):.0f}")
    claim("ids 0 and 1 are as near as ids 1 and 2, their vectors are not",
          (squared_distance(0, 1), squared_distance(1, 2), squared_distance(0, 2)) == (1, 3, 4))
    model = EncoderModel(EncoderConfig(3, 4, d_model=4, n_layers=1, n_heads=2))
    model.eval()
    before = model([[2, 0, 1]]).hidden.tolist()
    renumbered = [1, 2, 0]                              # alpha is 1 now, beta 2, gamma 0
    former = model.tokens.weight.tolist()
    model.load_state_dict({"tokens.weight": [former[renumbered.index(new)] for new in range(3)]},
                          strict=False)
    after = model([[renumbered[token] for token in (2, 0, 1)]]).hidden.tolist()
    claim("with other numbers and the rows of E moved alike, a model's output is the same to the "
          "last bit", before == after)


def lookup_is_a_product(page: Page) -> None:
    """X = S E, without ever making S."""
    heading("2. The sequence (2, 0): x_i = E^T e_i, so X = S E")
    look, ids = embedding(E), [2, 0]
    x, s = look(tf.tensor(ids)), tf.tensor(one_hot(ids, 3))
    for token, row in zip(ids, x.tolist()):
        print(f"  id {token} ({TOKENS[token]}): {numbers(row)}")
    claim("X is ((0, 1, 0, 1), (1, 0, 1, 0))", x.tolist() == [[0, 1, 0, 1], [1, 0, 1, 0]])
    claim("one-hot rows times E are the same, bit for bit",
          (s @ look.weight).tolist() == x.tolist())
    claim("E has 12 parameters, X has 8 elements", (look.n_parameters(), x.size) == (12, 8))
    print("  For BERT, S would hold 30,522 numbers a token; the lookup reads one row of 768.")
    places = [f"place {place + 1}" for place in range(2)]
    page.save(beside(table(s.tolist(), title="S", row_names=places, column_names=TOKENS, digits=0),
                     table(E, title="E", row_names=TOKENS, digits=0),
                     table(x.tolist(), title="X = S E", row_names=places, digits=0),
                     title="Looking up is multiplying by one-hot rows"), "embedding_lookup.svg")


def bill(page: Page) -> None:
    """dL/dE = S^T G, and who paid into each row."""
    heading("3. The way back, dL/dE = S^T G, as an itemised bill for ids (2, 0, 2)")
    look, ids = embedding(E), [2, 0, 2]
    g = [[float(number * size) for number in (1, 2, 3, 4)] for size in (1, 10, 100)]
    look(tf.tensor(ids)).backward(g)
    gradient = look.weight.grad.tolist()
    for token in range(3):
        paid = [f"place {place + 1}: {numbers(row)}" for place, row in enumerate(g)
                if ids[place] == token]
        print(f"  {TOKENS[token]:>5}: {numbers(gradient[token]):<21} = {' + '.join(paid) or 0}")
    product = tf.tensor(one_hot(ids, 3)).mT @ tf.tensor(g)
    claim("it equals the product S^T G", product.tolist() == gradient)
    claim("an id that occurs twice is paid twice", gradient[2] == [101, 202, 303, 404])
    wrong = [[0.0] * 4 for _ in range(3)]
    for token, row in zip(ids, g):
        wrong[token] = row                      # what grad[ids] += G does in NumPy
    print(f"  The usual mistake, grad[ids] += G, keeps the last payment: {numbers(wrong[2])}")
    claim("the usual mistake gives something else", wrong[2] == [100, 200, 300, 400])
    page.save(beside(table(g, title="G", digits=0, row_names=[TOKENS[token] for token in ids]),
                     table(gradient, title="S^T G", digits=0, row_names=TOKENS),
                     title="What the lookup of (2, 0, 2) sends back"), "embedding_gradient.svg")


def derivative_is_no_update() -> None:
    """beta was not looked up: its gradient is 0, and yet its vector may move."""
    heading("4. The derivative is not the update: beta, which nobody looked up")
    moved = {}
    for name, make in (
            ("SGD", lambda p: SGD(p, lr=0.1)),
            ("AdamW, weight decay 0.1", lambda p: AdamW(p, lr=0.1, weight_decay=0.1)),
            ("SGD, momentum left over", lambda p: SGD(p, lr=0.1, momentum=0.9))):
        look = embedding(E)
        optimiser = make(look.named_parameters())
        if "momentum" in name:
            look(tf.tensor([1])).sum().backward()       # an earlier step that did look it up
            optimiser.step()
            look.load_state_dict({"weight": E})
        optimiser.zero_grad()
        look(tf.tensor([2, 0])).sum().backward()
        gradient = look.weight.grad.tolist()[1]
        optimiser.step()
        moved[name] = look.weight.tolist()[1]
        print(f"  {name:<24} gradient {numbers(gradient)}, new vector {numbers(moved[name])}")
        claim("the gradient is exactly 0", gradient == [0.0] * 4)
    claim("SGD leaves it, decay and momentum do not",
          [row == E[1] for row in moved.values()] == [True, False, False])
    look = embedding(E)
    head = nn.Linear(4, 2)
    look.freeze()
    optimiser = SGD([p for p in (*look.parameters(), *head.parameters()) if p.requires_grad],
                    lr=0.5)
    losses = []
    for _ in range(20):
        loss = F.cross_entropy(head(look(tf.tensor([2, 0]))), tf.tensor([0, 1]))
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"  A frozen table under a head that learns: loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    claim("the loss falls and the frozen table stays, bit for bit",
          losses[-1] < losses[0] and look.weight.tolist() == E and "weight" in look.state_dict())


def one_word_many_meanings() -> None:
    """A table has one vector for a word; what stands behind the stack depends on the sentence."""
    heading("5. One vector in the table, another behind the stack in every sentence: broke")
    sentences = ["the cup broke", "day broke", "the story broke", "they broke a record",
                 "they broke a promise", "thieves broke into a shop", "someone broke into a song",
                 "we broke even"]
    words = sorted({word for sentence in sentences for word in sentence.split()})
    model = EncoderModel(EncoderConfig(len(words), 8, d_model=8, n_layers=1, n_heads=2)).eval()
    static, hidden = set(), set()
    for sentence in sentences:
        ids = [words.index(word) for word in sentence.split()]
        place = ids.index(words.index("broke"))
        static.add(tuple(model.tokens(tf.tensor(ids))[place].tolist()))
        hidden.add(tuple(model([ids]).hidden[0, place].tolist()))
    print(f"  {len(sentences)} sentences: {len(static)} vector looked up, {len(hidden)} made")
    claim("the table gives one vector, the stack eight", (len(static), len(hidden)) == (1, 8))


def main(page: Page) -> None:
    """The five parts."""
    ids_are_not_meanings()
    lookup_is_a_product(page)
    bill(page)
    derivative_is_no_update()
    one_word_many_meanings()


if __name__ == "__main__":
    run(main, __doc__ or "")
