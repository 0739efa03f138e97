"""Single layers of networks beside oneDNN and the multiply-add peak."""
