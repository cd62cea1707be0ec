"""The compiler's size: what counts as a line of code."""

from core.tools.report_passes import LINE_LIMIT, code_lines, size_rows


def test_docstrings_comments_and_blank_lines_are_no_code():
    text = '''"""A module.

It says so.
"""

# A comment.
x = (1,
     2)  # another

def f():
    """Says what it does."""
    return """not a
docstring"""
'''
    assert code_lines(text) == 2 + 1 + 2


def test_the_compiler_stays_under_its_limit():
    *layers, total = size_rows()
    assert total["code"] == sum(row["code"] for row in layers) <= LINE_LIMIT
    assert all(0 < row["code"] < row["lines"] for row in layers)
