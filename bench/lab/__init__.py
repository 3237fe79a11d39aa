"""What benches and long checks need around them, of the project's own: hosts with shaped links
(hosts.py), a Slurm (slurm.py), and what a user of PyTorch would run instead (torch_*.py)."""
