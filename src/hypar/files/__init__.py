"""What is read from and written to disk, strictly and with the place of every fault; knows no network and no machine."""
