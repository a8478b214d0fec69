"""The program that ``verify`` runs on the machine: it collects facts and judges nothing."""
