"""What a layer can be, one file each: its fields in a model file, its shapes and its dims."""
