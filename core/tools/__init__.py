"""For people: the command line and what it shows. Nothing imports this layer."""
