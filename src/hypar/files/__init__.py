"""Strict reading and writing of files, with the place of every fault; independent of networks and machines."""
