"""Who gets the devices that several pools want: claims in, grants out, over all pools of a budget at once."""
