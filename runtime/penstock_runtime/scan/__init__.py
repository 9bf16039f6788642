"""Reading a plain body's numbers natively, where that can be: a speed-up that no answer depends on."""
