"""The paper's tables, studies and single experiments: code and results. Not part of the installed package."""
