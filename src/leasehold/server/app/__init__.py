"""The application: wiring, lifespan, health, metrics, and the web page."""
