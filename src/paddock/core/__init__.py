"""What every verb needs for one agent: declare, resolve, observe, plan and perform."""
