"""Evaluation of trained models: board scores, roll-outs, code health, and the certificate."""
