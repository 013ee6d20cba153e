"""What results look like: ``of`` makes the document of each, and renderers that know documents alone write it."""
