import os, sys

sys.path.insert(0, os.path.dirname(__file__))


def pytest_configure(config):
    config.addinivalue_line('markers', 'sanitizer: also run by make asan and make tsan')
    config.addinivalue_line(
        'markers', 'mended: holds a defect that once was: fails before its cure'
    )
