"""The solvers of textbooks and lectures, each as its source states it.

They end where their source says they end, keep the whole kernel matrix, and see the samples in the user's order where their steps
depend on it. `solver="auto"` never chooses one of them.
"""
