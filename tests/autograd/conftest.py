"""The table, the checks and the mutants are modules beside the tests: let the tests import them."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
