"""The networks. Encoders, predictors and decoders return logits or pixels; none of them thresholds."""
