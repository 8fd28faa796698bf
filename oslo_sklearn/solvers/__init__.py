"""Pure torch functions on batches of tasks: one module per algorithm, no scikit-learn inside."""
