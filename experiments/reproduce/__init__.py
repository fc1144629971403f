"""The paper's tables made anew: what they consist of, the runs behind them, and how they are shown."""
