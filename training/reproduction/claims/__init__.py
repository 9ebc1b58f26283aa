"""The claims of the paper, and the rules by which measurements support them or not."""
