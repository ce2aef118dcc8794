"""What parked keys look like from outside: read as an onlooker, commanded, reported."""
