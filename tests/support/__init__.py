"""What tests share: sample files, real mounts, steps for stores."""
