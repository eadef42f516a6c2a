"""Single changes of a problem, how far each must go, and plans under lowered floors."""
