"""What a choice does to tensors, and how many elements must then move; knows no seconds."""
