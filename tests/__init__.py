"""The tests of maxmargin. They assert certificates and properties; `oracle` holds what the truth is."""
