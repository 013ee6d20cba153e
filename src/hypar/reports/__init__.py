"""What results look like: a function for each that makes its document, and renderers that know documents alone.

* ``of/``: the documents of results, each the ``plugin`` of its module, ``document_of(result) -> Document``.
* ``text.render(document, width, full=False)``: lines of styled text; ``text.plain(lines)`` without the styles.
* ``terminal.show_document(document, full=False)``: on stdout, as wide as the terminal; ``terminal.note``, ``warn``, ``write_json``.
* ``html.fragment(document)``: for notebooks; ``html.page(document)``: one file that needs nothing else.
* ``renderers.rendered(document, form)``: Markdown, CSV and other forms by name.
* ``plots.plot(document, file)``: its pictures, as ``charts`` makes them of ``svg``'s shapes.
* ``trace``: timelines for Perfetto; ``exports/``: pieces of plans for other tools.

In a table a value of a ``text`` column may be a ``document.Cell``, a choice in the colours of its dims; in a ``bar`` column
a number, a tuple of the numbers of its parts, or a text that stands there instead. The key ``tone`` of a row is the tone
of its text. A row with a name alone is a heading for the rows below it.
"""
