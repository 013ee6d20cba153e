"""What every device holds, computes, receives and adds in a training step, lowered once from a plan."""
