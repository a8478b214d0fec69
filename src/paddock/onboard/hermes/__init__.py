"""What runs with the code of Hermes on its machine."""
