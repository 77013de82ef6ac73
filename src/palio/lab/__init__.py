"""The papers' studies: topologies, scenarios and applications, sweeps of simulations on Spark, metrics and claims."""
