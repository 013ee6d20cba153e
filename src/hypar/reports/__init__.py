"""What results look like: ``of`` makes the document of each, and renderers that know documents alone write it.

In a table a value of a ``text`` column may be a ``document.Cell``, a choice in the colours of its dims; in a ``bar`` column
a number, a tuple of the numbers of its parts, or a text that stands there instead. The key ``tone`` of a row is the tone
of its text. ``plots`` draws such a column, timelines and lines; ``exports`` writes pieces of plans for other tools.
"""
