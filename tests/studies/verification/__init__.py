"""Tests of the verification of stored plans."""
