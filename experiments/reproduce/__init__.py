"""Reproduces the tables of the paper, and the one beyond it."""
