"""What everything else stands on: errors, types, files, the machine, the cluster, and the slots for kernels."""
