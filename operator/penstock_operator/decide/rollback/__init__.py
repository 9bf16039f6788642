"""An edit that does harm is set aside: the settings before it stay in force, and nobody's object is touched."""
