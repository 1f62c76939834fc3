"""What the codec ``chain`` is made of: what a block says of itself, the steps, and sources between them."""
