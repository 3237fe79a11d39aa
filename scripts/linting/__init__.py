"""What scripts/lint is made of: one idea a file. A check is a function of a tree (tree.py) that
gives faults; every fault has a kind, and tests/test_lint.py has a tree with each of them."""
