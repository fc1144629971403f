"""A symbolic model: rules that say what a learned predictor does, to read and to plan with."""
