"""The methods of the control plane, one module a family."""
