"""The law UtilizationBand: keeps GPU utilization between two bounds."""
