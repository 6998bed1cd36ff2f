"""dyad in VectorDBBench: `vectordb_bench/backend/clients/dyad` there."""
