"""How a cost graph gets smaller while its optimum stays, and what bounds it where it cannot."""
