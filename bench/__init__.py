"""The benchmarks: `python -m bench` runs all of them. Each is a module with a function `main(argv)`."""
