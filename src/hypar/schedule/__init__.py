"""Schedules: plans lowered to tasks."""
