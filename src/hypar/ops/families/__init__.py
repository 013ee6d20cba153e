"""The ops, one module a family: each op's fields, its nest and its forward expression; ``plugins`` names them."""
