"""The core of every verb: declare, resolve, observe, plan and perform one agent."""
