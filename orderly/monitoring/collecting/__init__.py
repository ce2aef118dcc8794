"""Reading what brokers and members know about backlogs: few questions, one deadline, no traces."""
