"""What runs when: plans lowered to tasks."""
