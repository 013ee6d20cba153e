"""The plan file: records, their checks, the difference of two plans; stores, neither decides nor computes."""
