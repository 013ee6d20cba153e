"""Verification of stored plans: a training step on simulated devices, held against one device and the plan's own count."""
