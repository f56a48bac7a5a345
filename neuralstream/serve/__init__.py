"""Memory that runs beside an agent: services, and a watcher of session logs. Each part loads on first use."""
